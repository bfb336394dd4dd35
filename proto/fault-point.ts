// For chaos tests: a process that kills itself at a named point, where a kill from outside would have to be lucky.
import { rmSync } from "node:fs";

export type FaultPoint<Name extends string> = (point: Name) => void;

/**
 * `spec`: names of points with commas between. `NAME@FILE`: only while that file exists; it is deleted first, so that the next process
 * lives. Undefined: no point does anything.
 */
export function faultPoint<Name extends string>(spec: string | undefined): FaultPoint<Name> {
  if (!spec) return () => {};
  const points = new Map(spec.split(",").map((one) => one.split("@", 2) as [name: string, file: string | undefined]));
  return (point) => {
    if (!points.has(point)) return;
    const file = points.get(point);
    if (file) {
      try {
        rmSync(file);
      } catch {
        return;
      }
    }
    process.kill(process.pid, "SIGKILL");
  };
}

type AsyncMethod = (...args: never[]) => Promise<unknown>;

/** Returns the object with points before and after one of its methods. */
export function withPoints<T extends object, Name extends string>(
  target: T,
  method: keyof T,
  point: FaultPoint<Name>,
  at: { readonly before?: Name; readonly after?: Name },
): T {
  const run = target[method] as AsyncMethod;
  const pointed: AsyncMethod = async (...args) => {
    if (at.before) point(at.before);
    const result = await run.apply(target, args);
    if (at.after) point(at.after);
    return result;
  };
  return { ...target, [method]: pointed };
}
