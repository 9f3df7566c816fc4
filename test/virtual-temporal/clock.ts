/** A clock that stands still until somebody moves it. */

interface Alarm {
  readonly atMs: number;
  ring(): void;
}

export class VirtualClock {
  #nowMs = Date.now();
  /** In the order in which they ring. */
  readonly #alarms: Alarm[] = [];

  /** ms since the epoch. Begins with the real time. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** When the next alarm rings, ms since the epoch; undefined without one. */
  get nextMs(): number | undefined {
    return this.#alarms[0]?.atMs;
  }

  /** Rings once the clock has moved that far. Alarms of the same time ring in the order in which they were set. */
  setAlarm(inMs: number, ring: () => void): { cancel(): void } {
    const alarm: Alarm = { atMs: this.#nowMs + Math.max(0, inMs), ring };
    const later = this.#alarms.findIndex(({ atMs }) => atMs > alarm.atMs);
    this.#alarms.splice(later === -1 ? this.#alarms.length : later, 0, alarm);
    return {
      cancel: () => {
        const place = this.#alarms.indexOf(alarm);
        if (place !== -1) this.#alarms.splice(place, 1);
      },
    };
  }

  /** Resolves once the clock has moved that far. */
  async sleep(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      this.setAlarm(ms, resolve);
    });
  }

  /** Moves to the next alarm, unless that is late already, and rings it. False without one. */
  ringNext(): boolean {
    const next = this.#alarms.shift();
    if (next === undefined) return false;
    this.moveTo(next.atMs);
    next.ring();
    return true;
  }

  /** Moves to a time, never back. Alarms of an earlier time are late. */
  moveTo(timeMs: number): void {
    this.#nowMs = Math.max(this.#nowMs, timeMs);
  }

  /** Forgets every alarm. */
  clear(): void {
    this.#alarms.length = 0;
  }
}
