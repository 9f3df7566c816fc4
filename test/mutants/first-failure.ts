import { writeFileSync } from 'node:fs';

/** Where the name of the first test that fails is, relative to the checkout. */
export const firstFailureFile = '.cache/first-failure.txt';

/** A reporter that ends jest with the first test that fails: those after it say no more, and each may wait in vain. */
export default function firstFailure() {
  return {
    onTestCaseResult(_: unknown, { status, fullName }: { readonly status: string; readonly fullName: string }): void {
      if (status !== 'failed') return;
      writeFileSync(firstFailureFile, fullName);
      process.exit(1);
    },
  };
}
