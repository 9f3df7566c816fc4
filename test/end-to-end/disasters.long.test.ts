import './disasters.test.ts';
