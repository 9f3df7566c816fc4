import { describe, expect, it } from '@jest/globals';
import { openstackScope, ownershipTags } from '../../../test/support/openstack.ts';
import { createOpenstackProvider } from './index.ts';

const context = { attempt: 1, signal: new AbortController().signal, heartbeat: () => {} };
const keys = {
  authURL: 'https://keystone.example.com/v3',
  applicationCredentialID: 'id',
  applicationCredentialSecret: 'x',
};

describe('validateClass', () => {
  const provider = createOpenstackProvider({ readSecret: async () => keys });
  const verdict = (spec: object) => provider.validateClass(openstackScope(spec), context);

  it('accepts a class, and answers one listScope for classes of one region, project and cluster', async () => {
    const { problems, listScope, tags } = await verdict({ tags: { ...ownershipTags, team: 'a' } });

    expect(problems).toEqual([]);
    expect(tags).toEqual({ ...ownershipTags, team: 'a' });
    expect((await verdict({ flavorName: 'large', imageID: 3 })).listScope).toBe(listScope);
    expect((await verdict({ region: 'two' })).listScope).not.toBe(listScope);
    expect(
      (await verdict({ tags: { 'kubernetes.io-cluster-b': '1', 'kubernetes.io-role-node': '1' } })).listScope,
    ).not.toBe(listScope);
  });

  it('accepts what machine-controller-manager writes: empty texts and null for what is left out, and what is deprecated', async () => {
    const written = {
      imageID: '',
      imageName: 'debian',
      subnetID: 'subnet-1',
      podNetworkCidr: '10.0.0.0/8',
      networks: null,
    };
    const podNetworkCIDRs = undefined;
    expect((await verdict({ ...written, podNetworkCIDRs, rootDiskSize: 0, rootDiskType: null })).problems).toEqual([]);
    const networks = [{ id: '', name: 'nodes', podNetwork: true }, { id: 'net-2' }];
    expect((await verdict({ networkID: '', networks, podNetworkCIDRs: ['fd00::/48'] })).problems).toEqual([]);
  });

  it('wants the version of the document', async () => {
    const { spec } = openstackScope().providerSpec;
    const { problems } = await provider.validateClass({ ...openstackScope(), providerSpec: { spec } }, context);

    expect(problems).toEqual([
      'providerSpec.apiVersion is missing: use openstack.machine.gardener.cloud/v1alpha1',
      'providerSpec.kind is missing: use MachineProviderConfig',
    ]);
  });

  it.each<[object, string]>([
    [{ region: '' }, 'region is "": give a string'],
    [{ availabilityZone: undefined }, 'availabilityZone is missing: give a string'],
    [{ flavorName: 3 }, 'flavorName is 3: give a string'],
    [{ keyName: '' }, 'keyName is "": give a string'],
    [{ imageID: '' }, 'imageName is missing: give it, or imageID'],
    [{ networkID: '' }, 'networkID is "": give it, or networks'],
    [{ networks: [{ id: 'n' }] }, 'networks is [{"id":"n"}]: leave it out, or networkID'],
    [
      { networkID: '', networks: [{ id: 'n', name: 'm' }] },
      'networks.0 is {"id":"n","name":"m"}: give either id or name',
    ],
    [{ networkID: '', networks: [{ id: 'n' }], subnetID: 's' }, 'subnetID is "s": needs networkID'],
    [{ networkID: '', networks: [{ id: 'n' }], subnetIDs: ['s'] }, 'subnetIDs is ["s"]: needs networkID'],
    [{ podNetworkCIDRs: [] }, 'podNetworkCIDRs is []: give at least 1 entry'],
    [{ podNetworkCIDRs: ['10.0.0.0/33'] }, 'podNetworkCIDRs.0 is "10.0.0.0/33": give a range such as 10.96.0.0/11'],
    [{ podNetworkCidr: 'all' }, 'podNetworkCidr is "all": give a range such as 10.96.0.0/11'],
    [{ rootDiskSize: -1 }, 'rootDiskSize is -1: give 0 or more'],
    [{ rootDiskType: 'fast' }, 'rootDiskSize is missing: rootDiskType needs it: give 1 or more'],
    [{ useConfigDrive: 'yes' }, 'useConfigDrive is "yes": give true or false'],
    [
      { tags: { a: 'b' } },
      'tags is {"a":"b"}: give a key that contains kubernetes.io-cluster- and one that contains kubernetes.io-role-',
    ],
    [
      { tags: { ...ownershipTags, 'a/b': '1' } },
      'tags is {"kubernetes.io-cluster-prod":"1","kubernetes.io-role-node":"1","a/b":"1"}: use letters, digits and -_:. in ' +
        'keys, and no "/": spell kubernetes.io/cluster/ as kubernetes.io-cluster-',
    ],
  ])('refuses %j with the field, its value and the fix', async (spec, problem) => {
    expect((await verdict(spec)).problems).toEqual([`providerSpec.spec.${problem}`]);
  });
});

describe('credentials', () => {
  const user = { username: 'me', password: 'p', domainName: 'Default', tenantName: 'shoots' };
  const problemsOf = async (own: Record<string, string>) => {
    const provider = createOpenstackProvider({ readSecret: async () => ({ authURL: keys.authURL, ...own }) });
    return (await provider.validateClass(openstackScope(), context)).problems.map(
      (text) => text.split(' (looked in')[0],
    );
  };

  it.each<[string, Record<string, string>]>([
    ['a user of a project', user],
    ['IDs', { username: 'me', password: 'p', domainID: 'd', tenantID: 't' }],
    ['a user of another domain than the project', { ...user, userDomainName: 'users' }],
    ['an application credential', keys],
    ['one by its name', { ...user, applicationCredentialName: 'ac', applicationCredentialSecret: 'x' }],
    ['no check of certificates', { ...user, insecure: 'true' }],
  ])('may be %s', async (_, own) => {
    expect(await problemsOf(own)).toEqual([]);
  });

  it.each<[Record<string, string>, string]>([
    [
      {},
      'no Secret has credentials: add the keys applicationCredentialID and applicationCredentialSecret, or username and password',
    ],
    [{ ...user, authURL: 'keystone' }, 'authURL is no address: give one that begins with https:// or http://'],
    [{ ...user, authURL: '' }, 'add the key authURL, the address of keystone'],
    [{ username: 'me', password: 'p', tenantName: 't' }, 'add the key domainName or domainID'],
    [{ username: 'me', password: 'p', domainName: 'd' }, 'add the key tenantName or tenantID'],
    [{ applicationCredentialID: 'a' }, 'add the key applicationCredentialSecret'],
    [
      { applicationCredentialName: 'a', applicationCredentialSecret: 'x' },
      'applicationCredentialName needs the keys username and domainName, or use applicationCredentialID',
    ],
    [{ ...user, insecure: 'yes' }, 'insecure must be true or false'],
    [{ ...user, caCert: 'MIIB' }, 'caCert has no certificate in PEM'],
    [{ ...user, clientCert: 'x' }, 'give both clientCert and clientKey, or neither'],
    [{ ...user, clientCert: 'x', clientKey: 'y' }, 'clientCert and clientKey are no certificate with its key in PEM'],
  ])('with the keys %j are refused', async (own, problem) => {
    expect(await problemsOf(own)).toEqual([problem]);
  });
});
