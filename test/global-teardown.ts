import { endAll } from './teardown.ts';

/** Ends what `global-setup.ts` has started. */
export default async function tearDown(): Promise<void> {
  await endAll();
}
