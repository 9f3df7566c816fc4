import './hibernation.test.ts';
