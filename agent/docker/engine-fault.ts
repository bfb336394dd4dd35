import { isDiskFull } from "../../proto/disk-space.ts";
import { DriverError } from "../reconcile/driver.ts";

interface Fault {
  readonly code?: string;
  readonly statusCode?: number;
  readonly json?: { readonly message?: string };
  readonly message?: string;
}

const awayCodes = new Set([
  "ENOENT",
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "EACCES",
  "EPERM",
  "ETIMEDOUT",
  "ENOTFOUND",
]);

/** Reason of a failed call to the engine, for the operator and, if it ends an instance, for the customer. */
export function faultOf(error: unknown, image = ""): DriverError {
  if (error instanceof DriverError) return error;
  const { code = "", message = "" } = error as Fault;
  const said = saidBy(error);
  if (awayCodes.has(code) || /socket hang up/i.test(message) || (error as Error).name === "TimeoutError")
    return fail("engine_away", `The Docker engine does not answer (${code || message}): ${wayBack(code)}`, true, error);
  if (statusOf(error) === 404 && /no such image/i.test(said))
    return fail(
      "image_missing",
      `The Docker engine of this host has no image ${image}: build the runtime's with scripts/runtime-image.sh, or bring it with docker pull or docker load, then deploy again.`,
      false,
      error,
    );
  if (/could not select device driver|nvidia-container|unknown or invalid runtime|unresolvable CDI/i.test(said))
    return fail(
      "gpu_runtime_missing",
      "The Docker engine of this host cannot give GPUs to containers: install the NVIDIA container toolkit there, restart the engine and deploy again.",
      false,
      error,
    );
  if (isDiskFull({ message: said }))
    return fail(
      "no_space",
      "The Docker engine has no disk space left: free some where it keeps its data (docker system df shows what uses it).",
      true,
      error,
    );
  const what = said === "" ? code || message : said;
  return fail("start_failed", `The Docker engine refused: ${what.trim().slice(0, 500)}.`, true, error);
}

export function statusOf(error: unknown): number | undefined {
  return (error as Fault).statusCode;
}

/** The engine's own words, without the client's framing. */
export function saidBy(error: unknown): string {
  const { json, statusCode, message } = error as Fault;
  return json?.message ?? (statusCode === undefined ? "" : (message ?? ""));
}

function wayBack(code: string): string {
  if (code === "EACCES" || code === "EPERM")
    return "this user may not use its socket; run the agent as a member of the group docker.";
  return "start it (systemctl start docker); running containers are found again.";
}

function fail(code: DriverError["code"], text: string, retryable: boolean, cause: unknown): DriverError {
  return new DriverError(code, text, { retryable, cause });
}
