import { takeStack } from './shared-stack.ts';

/** Ends the stack of `global-setup.ts`, if it started one. */
export default async function tearDown(): Promise<void> {
  await takeStack()?.stop();
}
