import type { TokenPredictor } from "node-llama-cpp";

/** Guesses tokens ahead; a right guess saves a step, a wrong one costs nothing but its check. */
export interface Predictor extends TokenPredictor {
  /** Off where a token's chances depend on the tokens before it: guesses are checked against one state of them. */
  isActive: boolean;
  /** Drops what it remembers of earlier text before its next use. */
  forget(): void;
}
