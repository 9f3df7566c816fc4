import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Gauge } from 'prom-client';
import { startHttp, watchEventLoop } from './http.ts';
import { createMetrics } from './metrics.ts';

const missing: string[] = [];
let sdk = async () => '';
const metrics = createMetrics(() => sdk());
const { registry, observeRequest } = metrics;
const servers: Awaited<ReturnType<typeof startHttp>>[] = [];

async function start(port = 0): Promise<string> {
  const server = await startHttp({ address: '127.0.0.1', port, allowedHosts: [], metrics, missing: () => missing });
  servers.push(server);
  return server.url;
}

afterEach(async () => {
  missing.length = 0;
  for (const server of servers.splice(0)) await server.close();
});

describe('startHttp', () => {
  it('answers /readyz with what is missing, until nothing is', async () => {
    const url = await start();

    missing.push('machines');
    const waiting = await fetch(`${url}/readyz`);
    missing.length = 0;
    const ready = await fetch(`${url}/readyz`);

    expect([waiting.status, await waiting.json()]).toEqual([503, { missing: ['machines'] }]);
    expect([ready.status, await ready.json()]).toEqual([200, { missing: [] }]);
  });

  it('is alive although it is not ready', async () => {
    missing.push('machines');

    expect((await fetch(`${await start()}/livez`)).status).toBe(200);
  });

  it('is not alive after the event loop stood still for too long, whoever has asked already', async () => {
    const url = await start();
    expect((await fetch(`${url}/livez`)).status).toBe(200);

    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5_600);
    const somebody = await fetch(`${url}/livez`);
    const kubelet = await fetch(`${url}/livez`);

    expect([somebody.status, kubelet.status]).toEqual([503, 503]);
  });

  it('keeps a connection for longer than Prometheus does', async () => {
    const { headers } = await fetch(`${await start()}/metrics`);

    const [, seconds = ''] = /^timeout=(\d+)$/.exec(headers.get('keep-alive') ?? '') ?? [];
    expect(Number(seconds)).toBeGreaterThan(5 * 60);
  });

  it('shows requests to API servers by verb, resource and code', async () => {
    observeRequest('control', {
      server: 'https://a:6443',
      verb: 'list',
      resource: 'machines',
      status: 200,
      seconds: 0.2,
    });
    observeRequest('control', {
      server: 'https://a:6443',
      verb: 'list',
      resource: 'machines',
      status: 'error',
      seconds: 5,
    });

    const text = await (await fetch(`${await start()}/metrics`)).text();

    const labels = 'cluster="control",verb="list",resource="machines"';
    expect(text).toContain(`millwright_kube_requests_total{${labels},code="200"} 1`);
    expect(text).toContain(`millwright_kube_requests_total{${labels},code="error"} 1`);
    expect(text).toContain(`millwright_kube_request_duration_seconds_count{${labels}} 2`);
    expect(text).toContain('nodejs_eventloop_lag_seconds');
  });

  it("shows the metrics of Temporal's SDK, and counts where that does not answer", async () => {
    const url = await start();
    const read = async () => (await fetch(`${url}/metrics`)).text();

    sdk = async () => '# TYPE temporal_num_pollers gauge\ntemporal_num_pollers 5\n';
    expect(await read()).toMatch(/\ntemporal_num_pollers 5\n$/);
    sdk = () => Promise.reject(new Error('no answer'));
    const text = await read();
    sdk = async () => '';

    expect(text).not.toContain('temporal_num_pollers');
    expect(text).toContain('mcm_misc_scrape_failure_total{kind="sdk"} 1\n');
  });

  it('stays alive when a metric cannot be read, and says why', async () => {
    const collect = () => Promise.reject(new Error('no answer'));
    new Gauge({ name: 'millwright_broken', help: 'Throws.', registers: [registry], collect });
    const url = await start();

    const response = await fetch(`${url}/metrics`);
    registry.removeSingleMetric('millwright_broken');

    expect([response.status, await response.json()]).toEqual([500, { error: 'Error: no answer' }]);
    expect((await fetch(`${url}/metrics`)).status).toBe(200);
  });

  it('says which flags to correct when the port is taken', async () => {
    const port = Number(new URL(await start()).port);

    await expect(start(port)).rejects.toThrow(/cannot serve HTTP .*EADDRINUSE.*correct --address or --port/);
  });

  it('answers HEAD as GET, without a body', async () => {
    const url = await start();

    for (const path of ['livez', 'readyz', 'metrics']) {
      const response = await fetch(`${url}/${path}`, { method: 'HEAD' });
      expect([response.status, await response.text()]).toEqual([200, '']);
    }
  });

  it('names its paths where there is nothing', async () => {
    const response = await fetch(`${await start()}/configz`);

    expect([response.status, await response.json()]).toEqual([404, { paths: ['/livez', '/readyz', '/metrics'] }]);
  });
});

it('remembers a block of the event loop for a while, also when it is read', () => {
  jest.useFakeTimers({ doNotFake: ['performance'] });
  let nowMs = 0;
  const now = jest.spyOn(performance, 'now').mockImplementation(() => nowMs);
  const pass = (ms: number) => {
    for (const until = nowMs + ms; nowMs < until; ) {
      nowMs += 500;
      jest.advanceTimersByTime(500);
    }
  };
  const lag = watchEventLoop();
  try {
    pass(20_000);
    const before = lag.worstMs();
    nowMs += 7_000;
    const blocked = [lag.worstMs(), lag.worstMs()];
    pass(14_500);
    const later = lag.worstMs();
    pass(1_000);

    expect({ before, blocked, later, after: lag.worstMs() }).toEqual({
      ...{ before: 0, blocked: [6_500, 6_500], later: 7_000, after: 0 },
    });
  } finally {
    lag.stop();
    now.mockRestore();
    jest.useRealTimers();
  }
});
