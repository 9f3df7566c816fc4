import './in-place-properties.test.ts';
