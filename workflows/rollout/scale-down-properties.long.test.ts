import './scale-down-properties.test.ts';
