import './lives.test.ts';
