import './kills.test.ts';
