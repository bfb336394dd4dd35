import { expect, it } from "vitest";
import { neverConnected } from "../../../proto/never-connected.ts";

const failed = (cause: unknown) => new TypeError("fetch failed", { cause });
const connecting = { code: "ECONNREFUSED", syscall: "connect" };

it.each([
  ["a refused connection", connecting, true],
  ["a name that is not known", { code: "ENOTFOUND", syscall: "getaddrinfo" }, true],
  ["no way to the host", { code: "EHOSTUNREACH", syscall: "connect" }, true],
  ["undici's own limit for connecting", { code: "UND_ERR_CONNECT_TIMEOUT" }, true],
  ["all addresses of one name", new AggregateError([connecting, { code: "ENETUNREACH", syscall: "connect" }]), true],
  ["a connection that timed out after it was made", { code: "ETIMEDOUT", syscall: "read" }, false],
  ["a way that was lost in the middle", { code: "EHOSTUNREACH", syscall: "write" }, false],
  ["an answer that broke off", { code: "UND_ERR_SOCKET" }, false],
  ["no reason at all", undefined, false],
])("%s", (_what, cause, expected) => {
  expect(neverConnected(failed(cause))).toBe(expected);
});
