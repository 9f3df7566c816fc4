import './machine-property.test.ts';
