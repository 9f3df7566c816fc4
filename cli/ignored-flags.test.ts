import { describe, expect, it } from '@jest/globals';
import { controllersCommand, workerCommand } from './commands/serve/command.ts';
import { type Flag, flags } from './flags.ts';
import { ignoredFlags, ignoredNotes } from './ignored-flags.ts';

/** The options of machine-controller-manager and its machine controller, v0.62.1, with their defaults. */
const originals: Readonly<Record<string, string>> = {
  ...{ port: '10258', address: '0.0.0.0', cloudProvider: '', concurrentSyncs: '10', minResyncPeriod: '12h' },
  ...{ profiling: 'false', contentionProfiling: 'false', targetKubeconfig: '', controlKubeconfig: '' },
  ...{ namespace: 'default', kubeApiContentType: 'application/vnd.kubernetes.protobuf' },
  ...{ kubeApiQps: '20', kubeApiBurst: '30', controllerStartInterval: '0s', leaderElect: 'true' },
  ...{ leaderElectLeaseDuration: '15s', leaderElectRenewDeadline: '10s', leaderElectRetryPeriod: '2s' },
  ...{ leaderElectResourceLock: 'leases', v: '0', vmodule: '', loggingFormat: 'text', logFlushFrequency: '5s' },
  ...{ logTextSplitStream: 'false', logTextInfoBufferSize: '0' },
  ...{ logJsonSplitStream: 'false', logJsonInfoBufferSize: '0' },
  ...{ safetyUp: '2', safetyDown: '1', machineSafetyOvershootingPeriod: '1m' },
  ...{ autoscalerScaledownAnnotationDuringRollout: 'true', machineCreationTimeout: '20m', machineHealthTimeout: '10m' },
  ...{ machineDrainTimeout: '2h', machineInplaceUpdateTimeout: '20m', machineMaxEvictRetries: '360' },
  ...{ machinePvDetachTimeout: '2m', machinePvReattachTimeout: '90s', machinePreserveTimeout: '96h' },
  ...{ machineSafetyOrphanVmsPeriod: '15m', machineSafetyApiserverStatuscheckTimeout: '30s' },
  ...{ machineSafetyApiserverStatuscheckPeriod: '1m', resourceExhaustedRetry: '10m' },
  ...{ nodeConditions: 'KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable' },
  bootstrapTokenAuthExtraGroups: '',
};
/** Ours are higher: there is one client instead of six. */
const otherDefaults = ['kubeApiQps', 'kubeApiBurst'];
const known: Readonly<Record<string, Flag>> = flags;

describe('the options of machine-controller-manager', () => {
  it.each(Object.entries(originals))(
    '[mcm 110] --%s exists with the same default, or a line says what replaces the flag or the default',
    (name, value) => {
      expect([name in known, name in ignoredFlags]).toContain(true);
      expect(name in known && name in ignoredFlags).toBe(false);
      if (otherDefaults.includes(name)) {
        expect(known[name]?.description).toContain(`MCM has ${value} for each of six clients`);
      } else if (name in known) {
        expect(known[name]?.default).toBe(value);
      }
    },
  );

  it('are the only ones that are accepted without effect', () => {
    expect(Object.keys(ignoredFlags).filter((name) => !(name in originals))).toEqual([]);
  });
});

it('[mcm 110 partly] controllers and workers accept what is for the other of them, and say that it has no effect', () => {
  for (const command of [controllersCommand, workerCommand]) {
    const accepted: readonly string[] = [...command.flags, ...(command.accepts ?? [])];
    const ofMcm = Object.keys(originals).filter((name) => name in known);
    expect(ofMcm.filter((name) => !accepted.includes(name))).toEqual([]);
    expect(command.accepts?.filter((name) => (command.flags as readonly string[]).includes(name))).toEqual([]);
  }
  expect(ignoredNotes({ leaderElect: 'true', v: '1' }, ['leaderElect', 'safetyUp'], 'only others use it')).toEqual([
    '--v has no effect: use --log-level',
    '--leader-elect has no effect: only others use it',
  ]);
});

it('names each flag that was given and has no effect, with what replaces it', () => {
  expect(ignoredNotes({ v: '3', profiling: 'true', port: '1' })).toEqual([
    '--profiling has no effect: Node.js has a profiler of its own: set NODE_OPTIONS=--cpu-prof or --heap-prof',
    '--v has no effect: use --log-level',
  ]);
});
