import { describe } from "vitest";
import { relaySuite } from "./relay-suite.ts";

describe("over a connection per request", () => relaySuite(false));
