/** How values become the payloads that Temporal stores: the one place for all clients and workers. */
import { fileURLToPath } from 'node:url';
import type { DataConverter } from '@temporalio/common';
import { type CodecKeys, createCodec } from './codec.ts';

const failureConverterPath = fileURLToPath(new URL('../workflows/failure-converter.ts', import.meta.url));

/**
 * The data converter of a process. With keys, the messages of failures are encrypted, too.
 * @param readKeys left out: there are none, see `createCodec`
 */
export function createDataConverter(readKeys?: () => CodecKeys, onProblem?: (error: unknown) => void): DataConverter {
  return {
    payloadCodecs: [createCodec(readKeys, onProblem)],
    ...(readKeys !== undefined && { failureConverterPath }),
  };
}

/** Whether the messages of failures are in a payload. */
export function encodesFailures(dataConverter: DataConverter | undefined): boolean {
  return dataConverter?.failureConverterPath !== undefined;
}
