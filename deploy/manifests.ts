/** `npm run manifests`: writes deploy/manifests from the chart, for those who do not use helm. */
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { findServer, serverSources } from './local/servers.ts';

const folder = fileURLToPath(new URL('./', import.meta.url));

/** A value as `--set` takes it, or values by their paths. */
export type Setting = string | Readonly<Record<string, unknown>>;

/** What the chart makes of a file of values in deploy/chart/examples, as YAML. Throws an Error with what helm says. */
export async function render(example: string, namespace: string, ...settings: readonly Setting[]): Promise<string> {
  const values = `${folder}chart/examples/${example}.yaml`;
  const set = settings.flatMap((setting) =>
    typeof setting === 'string'
      ? ['--set', setting]
      : Object.entries(setting).flatMap(([path, value]) => ['--set-json', `${path}=${JSON.stringify(value)}`]),
  );
  return template('millwright', namespace, `${folder}chart`, '--values', values, ...set);
}

/** What `helm template` makes of the chart in a folder, as YAML. Throws an Error with what helm says. */
export async function template(
  release: string,
  namespace: string,
  chart: string,
  ...options: readonly string[]
): Promise<string> {
  const version = ['--kube-version', serverSources['kube-apiserver'].version];
  const args = ['template', release, chart, ...version, '--namespace', namespace, ...options];
  // It would look for the kubeconfig of whoever runs this.
  const env = { ...process.env, KUBECONFIG: '/dev/null' };
  const { stdout } = await promisify(execFile)(await findServer('helm'), args, { env });
  return stdout;
}

/** Content of deploy/manifests/millwright.yaml. */
export async function manifests(): Promise<string> {
  const head =
    '# Made from deploy/chart by `npm run manifests`, for one cluster with the provider aws. Do not edit.\n' +
    '# Correct the image, the address of Temporal and the providers, and the namespace `millwright` where it is another one.\n';
  const objects = await render('one-cluster', 'millwright');
  return `${head}${objects.replaceAll(/^ *app\.kubernetes\.io\/managed-by: Helm\n|^# Source: .*\n/gm, '')}`;
}

if (import.meta.main) {
  await mkdir(`${folder}manifests`, { recursive: true });
  await writeFile(`${folder}manifests/millwright.yaml`, await manifests());
}
