/**
 * Starts a check of each version of the source objects (classes), so that what is wrong is known before a Machine needs
 * it, and an update of their VMs' tags where those were edited.
 */

import type { KubeObject } from '../api/objects.ts';
import { isUnsigned, signableBy } from '../api/places.ts';
import { verdictOf } from '../api/verdict.ts';
import { isTagged, toTagChange } from '../api/vm-tags.ts';
import { startSourceCheck, startTagUpdate } from '../temporal/workflows.ts';
import type { Controller, ControllerContext } from './controller.ts';
import { refOf } from './objects.ts';
import { createResyncBackoff } from './resync-backoff.ts';
import { bySecret, bySource } from './watches.ts';

type SourceCheckContext = Pick<
  ControllerContext,
  'watches' | 'dialect' | 'installation' | 'namespace' | 'defaults' | 'resyncMs'
>;

/**
 * Keys are names of sources. A version is checked once. One without a verdict, or that was refused, is checked again by
 * resyncs, with growing pauses: a worker of its provider may run by now, or a newer one may accept it. The check also
 * signs places that release 0.1.0 has left without a signature.
 */
export function createSourceCheckController(context: SourceCheckContext): Controller {
  const { watches, dialect, installation, namespace, defaults, resyncMs } = context;
  const { source, machine } = dialect;
  /** By name: the version that was asked about last. */
  const asked = new Map<string, string>();
  /** By name: the version whose check was asked to sign places. Only a resync asks again. */
  const signing = new Map<string, string>();
  const backoff = createResyncBackoff(resyncMs);

  /** Whether Machines of the source have places that can be signed. */
  async function findUnsigned(name: string): Promise<boolean> {
    const unsigned = watches.machines.byIndex(bySource, name).filter(isUnsigned);
    if (unsigned.length === 0) return false;
    // It lists nothing but sources.
    const sources = await source.list(
      async <T extends KubeObject>() => watches.sources.list() as readonly KubeObject[] as T[],
    );
    return unsigned.some(signableBy(sources));
  }

  /** The source if it has to be checked, with its version. @param isResync whether to look for places to sign again */
  async function findUnsettled(name: string, isResync = false) {
    const object = watches.sources.get({ namespace, name });
    if (object === undefined || object.metadata.deletionTimestamp !== undefined) return undefined;
    const version = source.versionOf(
      object,
      source.secretsOf(object).map((key) => watches.secrets.get(key)),
    );
    const verdict = verdictOf(object);
    const isAccepted = verdict?.version === version && verdict.problems.length === 0;
    const hasUnsigned = (isResync || signing.get(name) !== version) && (await findUnsigned(name));
    if (!isAccepted || hasUnsigned) {
      const start = async () => {
        await startSourceCheck(installation, refOf(dialect, object), version, hasUnsigned);
        if (hasUnsigned) signing.set(name, version);
      };
      return { object, version: hasUnsigned ? `${version} unsigned` : version, start };
    }
    const { tags } = verdict;
    if (tags === undefined) return undefined;
    const changeOf = toTagChange(tags);
    const isDue = (each: KubeObject) => changeOf(each) !== undefined && isTagged(machine.toSnapshot(each, defaults));
    if (!watches.machines.byIndex(bySource, name).some(isDue)) return undefined;
    const start = () => startTagUpdate(installation, refOf(dialect, object));
    return { object, version: `${version} ${JSON.stringify(tags)}`, start };
  }

  async function handle(name: string): Promise<void> {
    const unsettled = await findUnsettled(name);
    if (unsettled === undefined) asked.delete(name);
    if (unsettled === undefined || asked.get(name) === unsettled.version) return;
    await unsettled.start();
    asked.set(name, unsettled.version);
  }

  return {
    queue: 'source-checks',
    hears: {
      sources({ kind, object: { metadata } }) {
        if (kind === 'deleted') {
          asked.delete(metadata.name);
          signing.delete(metadata.name);
          backoff.forget(metadata.name);
        }
        return [metadata.name];
      },
      machines({ kind, object }) {
        const name = kind === 'deleted' ? undefined : source.nameOf(object);
        return name ? [name] : [];
      },
      secrets: ({ object }) =>
        watches.sources.byIndex(bySecret, object.metadata.name).map(({ metadata }) => metadata.name),
    },
    delayMs: 500,
    keys: () => watches.sources.list().map(({ metadata }) => metadata.name),
    handle,
    async resync(name) {
      const unsettled = await findUnsettled(name, true);
      if (unsettled === undefined) return backoff.forget(name);
      const { version } = unsettled;
      const isDue = backoff.isDue(name, version);
      if (isDue) {
        asked.delete(name);
        signing.delete(name);
      }
      await handle(name);
      backoff.note(name, version, isDue);
    },
    onRestored() {
      asked.clear();
      signing.clear();
    },
  };
}
