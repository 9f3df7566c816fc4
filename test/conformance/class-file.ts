import { readFileSync } from 'node:fs';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { MachineClass } from '../../api/gardener/schema/machine-class.ts';
import type { SecretRef } from '../../api/provider.ts';
import { UsageError } from '../../cli/options.ts';

const Metadata = z.object({ name: z.string().min(1), namespace: z.string().optional() });
const ClassDocument = MachineClass.extend({ kind: z.literal('MachineClass'), metadata: Metadata });
const SecretDocument = z.object({
  kind: z.literal('Secret'),
  metadata: Metadata,
  data: z.record(z.string(), z.string()).default({}),
  stringData: z.record(z.string(), z.string()).default({}),
});

/** A Secret of the file. */
export interface FileSecret extends SecretRef {
  /** Decoded. */
  readonly data: Readonly<Record<string, string>>;
}

/** What the suite needs of a file with a MachineClass. */
export interface ClassFile {
  readonly name: string;
  readonly namespace: string;
  /** As in the class. */
  readonly provider: string | undefined;
  readonly providerSpec: object;
  /** Secrets that the class names, in the order in which their keys are merged. */
  readonly credentials: readonly SecretRef[];
  /** Further documents of the file. */
  readonly secrets: readonly FileSecret[];
}

/**
 * Reads a file with a MachineClass, and Secrets if it has some. Throws UsageError with the field, its value and the
 * fix.
 * @param namespace of objects without one
 */
export function readClassFile(path: string, namespace: string): ClassFile {
  return parseClassFile(readText(path), path, namespace);
}

/** @param path for messages */
export function parseClassFile(text: string, path: string, namespace: string): ClassFile {
  const documents = parseAllDocuments(text);
  const [broken] = documents.flatMap(({ errors }) => errors);
  if (broken) throw new UsageError(`--class is '${path}', which is no YAML: ${broken.message}`);
  const objects = documents.map((document): unknown => document.toJS()).filter((each) => each !== null);
  const kinds = objects.map((each) => z.object({ kind: z.string() }).safeParse(each).data?.kind);
  const count = kinds.filter((kind) => kind === 'MachineClass').length;
  if (count !== 1) throw new UsageError(`--class is '${path}', which has ${count} MachineClasses: give it one`);

  const machineClass = parse(ClassDocument, objects[kinds.indexOf('MachineClass')], path);
  const own = machineClass.metadata.namespace ?? namespace;
  const refs = [machineClass.secretRef, machineClass.credentialsSecretRef].flatMap((ref) =>
    ref?.name ? [{ namespace: ref.namespace || own, name: ref.name }] : [],
  );
  const secrets = objects
    .filter((_, at) => kinds[at] === 'Secret')
    .map((each) => {
      const { metadata, data, stringData } = parse(SecretDocument, each, path);
      const decoded = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]);
      const all: Record<string, string> = { ...Object.fromEntries(decoded), ...stringData };
      return { namespace: metadata.namespace ?? own, name: metadata.name, data: all };
    });
  const { provider, providerSpec } = machineClass;
  return { name: machineClass.metadata.name, namespace: own, provider, providerSpec, credentials: refs, secrets };
}

function parse<T>(schema: z.ZodType<T>, value: unknown, path: string): T {
  const { data, error } = schema.safeParse(value);
  if (data !== undefined) return data;
  const problems = error?.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`) ?? [];
  throw new UsageError(`--class is '${path}', which is not usable: correct ${problems.join('; ')}`);
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    throw new UsageError(`--class is '${path}': give the path of a file that can be read`);
  }
}
