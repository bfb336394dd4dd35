// How long a page takes to respond to what a person does, as the browser measures it.
import type { CDPSession, Page } from "playwright-core";

/** Time from an input until the screen shows its effect, as the browser measures it. */
export function watchEvents(): void {
  const found: number[] = [];
  Object.assign(globalThis, { eventMs: found });
  const names = ["click", "keydown", "mouseover", "pointerover"];
  new PerformanceObserver((list) => {
    for (const { name, duration } of list.getEntries()) if (names.includes(name)) found.push(duration);
  }).observe({ type: "event", durationThreshold: 16, buffered: true } as PerformanceObserverInit);
}

/** Session in which `cpuMs` measures. */
export async function cpuSession(page: Page): Promise<CDPSession> {
  const cpu = await page.context().newCDPSession(page);
  await cpu.send("Performance.enable", { timeDomain: "threadTicks" });
  return cpu;
}

/** Milliseconds of processor time that the page spends on it, until it has painted: other work of the machine does not count. */
export async function cpuMs(cpu: CDPSession, page: Page, act: () => Promise<unknown>): Promise<number> {
  const spent = async () => {
    const { metrics } = await cpu.send("Performance.getMetrics");
    return 1000 * (metrics.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN);
  };
  const before = await spent();
  await act();
  await page.evaluate(() => new Promise((painted) => requestAnimationFrame(() => setTimeout(painted, 0))));
  return (await spent()) - before;
}

export const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
};
