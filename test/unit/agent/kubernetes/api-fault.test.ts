import { expect, it } from "vitest";
import { faultOf, wordsOf } from "../../../../agent/kubernetes/api-fault.ts";

const answer = (code: number, message: string) =>
  Object.assign(new Error("HTTP"), { code, body: JSON.stringify({ kind: "Status", message }) });

it.each([
  [
    Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNREFUSED" } }),
    "engine_away",
    true,
    "ECONNREFUSED",
  ],
  [answer(401, "Unauthorized"), "engine_away", true, "credentials"],
  [answer(503, "apiserver is shutting down"), "engine_away", true, "shutting down"],
  [answer(429, "too many requests"), "engine_away", true, "too many"],
  [answer(403, 'pods "p" is forbidden: exceeded quota: few, requested: pods=1'), "quota_exceeded", true, "quota"],
  [answer(403, 'pods "p" is forbidden: maximum memory usage per Pod is 1Gi'), "quota_exceeded", true, "quota"],
  [answer(403, 'pods "p" is forbidden: violates PodSecurity "restricted"'), "start_failed", false, "security rules"],
  [answer(403, 'User "a" cannot create resource "pods"'), "start_failed", true, "(403)"],
  [answer(422, "Pod is invalid: spec.containers"), "start_failed", false, "(422)"],
])("tells the reason of a failed call (%#)", (error, code, retryable, text) => {
  const fault = faultOf(error);
  expect(fault).toMatchObject({ code, retryable });
  expect(fault.message).toContain(text);
});

it("keeps the words of the API server from customers, for the log", () => {
  const said = 'pods "p" is forbidden: exceeded quota: few, used: pods=12';
  const fault = faultOf(answer(403, said));
  expect(fault.message).not.toContain("few");
  expect(wordsOf(fault.cause)).toBe(said);
});
