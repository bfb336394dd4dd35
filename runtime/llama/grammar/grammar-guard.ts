// Follows a constrained output beside llama.cpp and stops it before the open positions of its grammar become too many. A
// recursive grammar can double them with each character, and which text does that is not known before it is written.
import type { ParsedGrammar } from "./gbnf-rules.ts";
import { GrammarWalk, type OpenStacks, WalkTooLong } from "./grammar-walk.ts";
import { maxOpenStacks, tooAmbiguous } from "./grammar-work.ts";

/** Stacks that one piece of text may visit. */
const maxWorkPerPiece = 200_000;
/** Stacks kept in memory per output. */
const maxKeptStacks = 500_000;

export class GrammarGuard {
  readonly #walk: GrammarWalk;
  #open: OpenStacks;

  constructor(grammar: ParsedGrammar) {
    this.#walk = new GrammarWalk(grammar, maxWorkPerPiece);
    this.#open = this.#walk.start(grammar.root);
  }

  /** Number of positions that the output is at; 0 once it has left the grammar. */
  get openCount(): number {
    return this.#open.stacks.length;
  }

  /** Takes the next part of the output. Throws UnsupportedConstraint. */
  push(text: string): void {
    this.#walk.refill(maxWorkPerPiece);
    try {
      for (const char of text) {
        const next = this.#walk.accept(this.#open, char.codePointAt(0) as number);
        this.#open = { stacks: next.stacks, ways: next.stacks.map(() => 1) };
        if (next.stacks.length > maxOpenStacks) throw tooAmbiguous();
      }
    } catch (error) {
      throw error instanceof WalkTooLong ? tooAmbiguous() : error;
    }
    if (this.#walk.size > maxKeptStacks) throw tooAmbiguous();
  }
}
