// For chaos tests: the agent dies at a named point of one request. `after_record`: its usage record is durable and the
// gateway has not received any byte of the end. `after_record@<file>`: only while that file exists; it is deleted first, so
// that the restarted agent lives.
import { rmSync } from "node:fs";

export type FaultPoint = (point: "after_record") => void;

export function faultPoint(spec: string | undefined): FaultPoint {
  if (!spec) return () => {};
  const [name, file] = spec.split("@", 2);
  return (point) => {
    if (point !== name) return;
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
