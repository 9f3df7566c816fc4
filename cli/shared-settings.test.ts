import { expect, it } from '@jest/globals';
import { settingsOf, workerIdentity } from '../temporal/clusters.ts';
import { clusterFlags, machineFlags, temporalFlags } from './flag-groups.ts';
import { parseOptions } from './options.ts';
import { sharedSettings } from './shared-settings.ts';

const names = [...clusterFlags, ...temporalFlags, ...machineFlags] as const;
const [here, there] = [{ server: 'https://a' }, { server: 'https://b' }];
const settingsWith = (given: Readonly<Record<string, string>>, target = here) =>
  sharedSettings(parseOptions(names, given, {}), { control: here, target });

it('are none where a process has the defaults, however they are written', () => {
  const nodeConditions = 'DiskPressure, NetworkUnavailable,ReadonlyFilesystem,KernelDeadlock';
  expect(settingsWith({ machineDrainTimeout: '120m', nodeConditions, controlPlaneNodes: 'false' })).toEqual({});
});

it.each([
  [{ machineCreationTimeout: '1h' }, { '--machine-creation-timeout': '3600s' }],
  [{ machineMaxEvictRetries: '1' }, { '--machine-max-evict-retries': '1' }],
  [{ ordersInAnnotations: 'true' }, { '--orders-in-annotations': 'true' }],
  [{ nodeConditions: 'B,A' }, { '--node-conditions': 'A,B' }],
  [{ nodeConditions: '' }, { '--node-conditions': '' }],
  [{ controlKubeconfig: '/secret', targetKubeconfig: 'none' }, { '--target-kubeconfig': 'none' }],
  [{ temporalCodecKeys: '/secret' }, { '--temporal-codec-keys': 'given' }],
])('of %j the identity has %j, without paths', (given, settings) => {
  expect(settingsWith(given)).toEqual(settings);
  for (const clusterId of [undefined, 'b2c9']) {
    expect(settingsOf(workerIdentity({ settings, clusterId }))).toEqual(new Map(Object.entries(settings)));
  }
});

it('have whether the Nodes are in another cluster, whose clock may differ', () => {
  expect(settingsWith({ controlKubeconfig: '/a' }, there)).toEqual({ '--target-kubeconfig': 'another-cluster' });
});

it('fit into an identity, and a long list differs from another one that begins alike', () => {
  const conditions = Array.from({ length: 200 }, (_, i) => `Condition${i}`);
  const settings = settingsWith({ nodeConditions: conditions.join(',') });
  expect(workerIdentity({ settings }).length).toBeLessThan(300);
  expect(settingsWith({ nodeConditions: conditions.slice(0, -1).join(',') })).not.toEqual(settings);
});
