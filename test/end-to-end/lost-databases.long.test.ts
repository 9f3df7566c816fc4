import './lost-databases.test.ts';
