import './rolling.test.ts';
