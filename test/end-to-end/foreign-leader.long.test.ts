import './foreign-leader.test.ts';
