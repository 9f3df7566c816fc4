/** A workflow that does nothing: what Temporal costs by itself. */
export async function bare(): Promise<void> {}
