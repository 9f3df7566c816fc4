// Run through `npm test`: jest needs --experimental-vm-modules, otherwise @swc/jest silently compiles to CommonJS.
export default {
  testEnvironment: '<rootDir>/test/costs/environment.ts',
  reporters: ['default', '<rootDir>/test/costs/reporter.ts'],
  testMatch: ['<rootDir>/**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/', '\\.long\\.test\\.ts$'],
  modulePathIgnorePatterns: ['<rootDir>/.cache'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: { target: 'es2023', parser: { syntax: 'typescript' }, keepClassNames: true },
        module: { type: 'es6' },
        sourceMaps: 'inline',
      },
    ],
  },
  testSequencer: '<rootDir>/test/costs/sequencer.ts',
  globalSetup: '<rootDir>/test/global-setup.ts',
  globalTeardown: '<rootDir>/test/global-teardown.ts',
  // Three times the cores of the smallest machine: with five, they were idle for a sixth of the time.
  maxWorkers: 6,
  // Of a test or hook that hangs. At least twice what the longest ones without a limit of their own have taken.
  testTimeout: 300_000,
};
