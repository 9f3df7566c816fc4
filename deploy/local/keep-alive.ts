/**
 * How long the servers of the local stack and of tests keep an unused connection, ms. With Node's 5 s a request may
 * fail, because its connection is closed just then.
 */
export const keepAliveTimeout = 600_000;
