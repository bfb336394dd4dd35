import { expect, test } from "vitest";
import { agentEnvironment, controlPlaneEnvironment } from "../../../scripts/supervisor/environment.ts";

const operator = {
  STOKER_HOST: "http://api.example.com",
  STOKER_API_KEY: "stk_x",
  HF_TOKEN: "hf_x",
  DATABASE_URL: "postgres://x",
};
const machine = { cores: 2, memoryBytes: 4e9 };
const places = {
  machine,
  dataDir: "/data",
  host: "127.0.0.1",
  rpcPort: 4000,
  workers: 1,
  controls: ["127.0.0.1:4000", "127.0.0.1:4001"],
  joins: false,
};

test("ignores the operator's own CLI variables for the children", () => {
  const env = controlPlaneEnvironment(operator, { ...places, port: 8080, databaseUrl: "postgres://own", number: 1 });
  expect(env["STOKER_HOST"]).toBe("127.0.0.1");
  expect(env["STOKER_API_KEY"]).toBeUndefined();
  expect(env["DATABASE_URL"]).toBe("postgres://own");
});

test("passes an agent the source of weights, and never the database", () => {
  const env = agentEnvironment(operator, { ...places, driver: "process", number: 2, agents: 2 });
  expect(env["HF_TOKEN"]).toBe("hf_x");
  expect(env["DATABASE_URL"]).toBeUndefined();
  expect(env["STOKER_AGENT_DATA"]).toBe("/data/agents/2");
});

test("keeps compiled modules in the data folder, unless the operator names another one", () => {
  const agentOf = (env: NodeJS.ProcessEnv) =>
    agentEnvironment(env, { ...places, driver: "process", number: 1, agents: 1 });
  const controlOf = (env: NodeJS.ProcessEnv) =>
    controlPlaneEnvironment(env, { ...places, port: 8080, databaseUrl: "", number: 1 });
  for (const environment of [agentOf, controlOf]) {
    expect(environment({})["NODE_COMPILE_CACHE"]).toBe("/data/compiled");
    expect(environment({ NODE_COMPILE_CACHE: "/tmp/own" })["NODE_COMPILE_CACHE"]).toBe("/tmp/own");
  }
});

test("stops both with their parent", () => {
  const agent = agentEnvironment({}, { ...places, driver: "process", number: 1, agents: 1 });
  const control = controlPlaneEnvironment({}, { ...places, port: 8080, databaseUrl: "", number: 1 });
  expect([agent["STOKER_STOP_WITH_PARENT"], control["STOKER_STOP_WITH_PARENT"]]).toEqual(["1", "1"]);
});

test("offers the machine once with several agents, and lets one agent decide for itself", () => {
  const offers = [1, 2].map((number) => agentEnvironment({}, { ...places, driver: "process", number, agents: 2 }));
  const bytes = offers.map((env) => Number(env["STOKER_GPUS"]) * Number(env["STOKER_GPU_MEMORY_BYTES"]));
  expect(bytes.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(machine.memoryBytes);
  expect(Math.min(...bytes)).toBeGreaterThan(1e9);
  const alone = agentEnvironment({}, { ...places, driver: "process", number: 1, agents: 1 });
  expect(alone["STOKER_GPUS"]).toBeUndefined();
});

test("passes an agent every control plane, and only the first one writes the operator's key", () => {
  const agent = agentEnvironment({}, { ...places, driver: "process", number: 1, agents: 1 });
  expect(agent["STOKER_CONTROL"]).toBe("127.0.0.1:4000,127.0.0.1:4001");
  const envs = [1, 2].map((number) => controlPlaneEnvironment({}, { ...places, port: 8080, databaseUrl: "", number }));
  expect(envs.map((env) => env["STOKER_ADMIN_KEY_FILE"])).toEqual(["/data/admin.key", undefined]);
  expect(new Set(envs.map((env) => env["STOKER_PORTS_FILE"])).size).toBe(2);
});
