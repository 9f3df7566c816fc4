import { describe, expect, it } from '@jest/globals';
import { parseClassFile } from './class-file.ts';

const machineClass = `
apiVersion: machine.sapcloud.io/v1alpha1
kind: MachineClass
metadata: { name: small }
provider: example
secretRef: { name: pool }
credentialsSecretRef: { name: account, namespace: garden }
providerSpec: { region: here }
`;
const secret = `
apiVersion: v1
kind: Secret
metadata: { name: pool }
data: { user: ${Buffer.from('me').toString('base64')} }
stringData: { token: letmein }
`;

const parse = (text: string) => parseClassFile(text, 'class.yaml', 'default');

describe('parseClassFile', () => {
  it('reads a class and its Secrets, in the given namespace unless they name another', () => {
    expect(parse(`${machineClass}---${secret}`)).toEqual({
      name: 'small',
      namespace: 'default',
      provider: 'example',
      providerSpec: { region: 'here' },
      credentials: [
        { namespace: 'default', name: 'pool' },
        { namespace: 'garden', name: 'account' },
      ],
      secrets: [{ namespace: 'default', name: 'pool', data: { user: 'me', token: 'letmein' } }],
    });
  });

  it.each([
    ['a: [', 'which is no YAML'],
    [secret, 'which has 0 MachineClasses: give it one'],
    [`${machineClass}---${machineClass}`, 'which has 2 MachineClasses: give it one'],
    ['kind: MachineClass\nmetadata: { name: a }', 'correct providerSpec: '],
    [`${machineClass}---\nkind: Secret\nmetadata: {}`, 'correct metadata.name: '],
  ])('refuses %j', (text, problem) => {
    expect(() => parse(text)).toThrow(problem);
    expect(() => parse(text)).toThrow("--class is 'class.yaml'");
  });
});
