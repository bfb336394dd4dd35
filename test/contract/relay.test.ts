import { describe } from "vitest";
import { relaySuite } from "./relay-suite.ts";

describe("over one connection per agent", () => relaySuite(true));
