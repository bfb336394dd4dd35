import { readFileSync } from "node:fs";
import { hostname } from "node:os";

/** New with every start of the machine, if the system provides it. */
export function bootId(): string {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return hostname();
  }
}
