import './api-freeze.test.ts';
