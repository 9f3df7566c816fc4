import { defineCommand } from '../../command.ts';

export const codecServerCommand = defineCommand({
  name: 'codec-server',
  description: `Serve the keys of encrypted payloads to the Temporal UI and to \`temporal\`: they show what it decrypts. It listens on 127.0.0.1 only, and answers pages of --temporal-ui and programs of this host.`,
  flags: ['temporalCodecKeys', 'temporalUi', 'codecPort', 'allowedHosts'],
  examples: [
    [
      'codec-server --temporal-codec-keys /etc/keys --temporal-ui https://temporal.example.com',
      'decrypt for the pages of this Temporal UI',
    ],
  ],
  async run(options) {
    const { serveCodec } = await import('./run.ts');
    await serveCodec(options);
  },
});
