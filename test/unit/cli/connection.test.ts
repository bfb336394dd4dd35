import { expect, test } from "vitest";
import { CliError } from "../../../cli/cli-error.ts";
import { findConnection } from "../../../cli/connection.ts";

const nowhere = { XDG_CONFIG_HOME: "/nonexistent" };

test("a flag wins over STOKER_HOST, which wins over this machine", () => {
  const env = { ...nowhere, STOKER_HOST: "http://one:1" };
  expect(findConnection("http://two:2/", env, "/nonexistent").host).toBe("http://two:2");
  expect(findConnection(undefined, env, "/nonexistent").host).toBe("http://one:1");
  expect(findConnection(undefined, nowhere, "/nonexistent").host).toBe("http://127.0.0.1:8080");
});

test("STOKER_API_KEY is the key wherever it is set", () => {
  const env = { ...nowhere, STOKER_API_KEY: "stk_x" };
  expect(findConnection("http://elsewhere", env, "/nonexistent").key()).toBe("stk_x");
});

test("the key of this machine's server is never taken for another host", () => {
  const connection = findConnection("https://api.example.com", nowhere, process.cwd());
  expect(() => connection.key()).toThrow(CliError);
});

test("a host that is no URL is wrong usage", () => {
  expect(() => findConnection("localhost:8080x y", nowhere, "/nonexistent")).toThrow(CliError);
});
