/** A chat as the playground sends it and a snippet shows it. */
export interface ChatRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly max_tokens: number;
  readonly temperature: number;
}

export interface Message {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}
