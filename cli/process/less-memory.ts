/** Settings with which a process takes less memory. */
import { fileURLToPath } from 'node:url';

const semiSpace = '--max-semi-space-size';

/**
 * V8 starts a collection when a heap has grown by 60 % instead of up to 300 %, and the young part of each of our two
 * heaps takes at most 12 MiB instead of 48.
 */
const v8Flags = [`${semiSpace}=4`, '--heap-growing-percent=60'];

/** Of compiled files. It makes up for the time of the second start. Nothing fails where it cannot be written. */
const compileCache = fileURLToPath(new URL('../../.cache/compiled', import.meta.url));

/**
 * Replaces this process by one with the same PID and arguments, and with options that V8 and glibc read only at the
 * start. They limit no heap. A process that has the options, or a size of the young part of its own, is not replaced.
 */
export function takeLessMemory(): void {
  // The SDK keeps the last answer of each workflow. In a slab of 64 KiB, the default, it would keep the whole slab
  // alive.
  Buffer.poolSize = 8 * 1024;
  const { execArgv, argv, execPath, env } = process;
  if ([...execArgv, env.NODE_OPTIONS].some((given) => given?.replaceAll('_', '-').includes(semiSpace))) return;
  const variables = {
    MALLOC_ARENA_MAX: '2', // glibc otherwise keeps free memory for each of many threads
    NODE_COMPILE_CACHE: compileCache,
    ...env,
  };
  if (process.platform !== 'win32')
    process.execve?.(execPath, [execPath, ...v8Flags, ...execArgv, ...argv.slice(1)], variables);
}
