import type { Stack } from '../deploy/local/stack.ts';

// Set-up and teardown run in the same process, but jest loads the modules of each afresh.
const shared = globalThis as typeof globalThis & { millwrightStack?: Stack | undefined };

export function keepStack(stack: Stack): void {
  shared.millwrightStack = stack;
}

export function takeStack(): Stack | undefined {
  return shared.millwrightStack;
}
