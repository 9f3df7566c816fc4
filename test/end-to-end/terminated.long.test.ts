import './terminated.test.ts';
