// How loud the line of a refused request is: whoever is woken by errors is not woken by a model that sleeps.
import { pino } from "pino";
import { expect, it } from "vitest";
import { createHttp } from "../../control-plane/http/core/create-http.ts";
import { ModelNotReady } from "../../control-plane/inference/errors.ts";
import { DatabaseUnavailable } from "../../control-plane/service-error.ts";
import { apiKey, fakePorts } from "../fakes/ports.ts";

it.each([
  ["a state that was foreseen is a warning", new ModelNotReady("o/m", "stopped", 30), 503, "warn"],
  ["a database outage is an error", new DatabaseUnavailable("unreachable"), 503, "error"],
  ["a bug is an error", new TypeError("a bug"), 500, "error"],
])("%s", async (_name, error, status, level) => {
  const { deps, logLines } = fakePorts();
  Object.assign(deps.agentInstances, { list: () => Promise.reject(error) });
  const app = await createHttp(deps);
  const headers = { authorization: `Bearer ${apiKey}` };
  const answer = await app.inject({ method: "GET", url: "/v1/agent", headers });
  await app.close();
  expect(answer.statusCode).toBe(status);
  expect(logLines.map((line) => line["level"])).toEqual([pino.levels.values[level]]);
});
