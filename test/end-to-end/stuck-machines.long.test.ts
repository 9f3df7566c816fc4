import './stuck-machines.test.ts';
