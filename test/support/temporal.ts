/** Tests' own connection to Temporal. */
import { Connection } from '@temporalio/client';
import { fromSetup } from './from-setup.ts';

/**
 * Connects to a Temporal server. On a busy machine that takes longer than the 10 s of the SDK.
 * @param address default: that of the test stack
 */
export function connectTemporal(address = fromSetup('MILLWRIGHT_TEST_TEMPORAL_ADDRESS')): Promise<Connection> {
  return Connection.connect({ address, connectTimeout: '1 minute' });
}
