const openstack = 'OpenStack is a real one: a server there costs a second and a half';
const servers = 'it has servers of its own, which are killed or restored in the middle of work';
const processes = 'it is about the processes that people start: each takes a second or two';
const clouds = 'it goes through all that the provider does, against a process that answers as the cloud';
const commands = 'it runs commands as people do, each in a process';

/** Why a test file may cost more than 20 CPU-seconds. */
export const reasons: Readonly<Record<string, string>> = {
  'test/documented/commands.test.ts': commands,
  'test/end-to-end/aws.test.ts': clouds,
  'test/end-to-end/azure.test.ts': clouds,
  'test/end-to-end/brake.test.ts': commands,
  'test/end-to-end/conformance-azure.test.ts': clouds,
  'test/end-to-end/failed-rollout.test.ts': commands,
  'test/end-to-end/foreign-leader.test.ts': processes,
  'test/end-to-end/kills.test.ts': servers,
  'test/end-to-end/leader.test.ts': processes,
  'test/end-to-end/limits.test.ts': 'limits are only reached by many machines at once',
  'test/end-to-end/lost-databases.test.ts': servers,
  'test/end-to-end/openstack.test.ts': openstack,
  'test/end-to-end/orphan-sweep.test.ts': commands,
  'test/end-to-end/outage.test.ts': 'each of its outages ends the work of a process of its own',
  'test/end-to-end/process.test.ts': processes,
  'test/end-to-end/rolling.test.ts': 'bounds in percent need twenty machines to mean something',
  'test/end-to-end/scale.test.ts': 'a row of the acceptance table is about a hundred machines',
  'workflows/rollout/plan-properties.test.ts': 'it plays hundreds of random sequences of events',
};
