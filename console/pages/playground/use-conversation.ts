// Sends the turns of a conversation and adds what the model answers.
import { useState } from "react";
import type { Answer, Content } from "../../domain/chat.ts";
import { type Conversation, requestOf, type Turn } from "../../domain/conversations.ts";
import { useChatRun } from "./use-chat-run.ts";

export interface Talk {
  readonly live: Answer | undefined;
  readonly error: unknown;
  readonly send: (content: Content) => void;
  /** Results of the tools that the last answer called, by their position. */
  readonly sendResults: (results: readonly string[]) => void;
  /** Answers the last message of the user again. */
  readonly regenerate: () => void;
  /** Replaces the message of that turn and removes what follows. */
  readonly edit: (at: number, content: Content) => void;
  readonly stop: () => void;
}

/** Receives the conversation as it is by then. */
type Change = (id: string, change: (before: Conversation) => Conversation) => void;

export function useConversation(conversation: Conversation, onChange: Change): Talk {
  const run = useChatRun();
  const [failure, setFailure] = useState<{ readonly id: string; readonly error: unknown } | undefined>(undefined);

  const answer = async (turns: readonly Turn[]) => {
    if (run.live) return;
    const { model, settings, id } = conversation;
    setFailure(undefined);
    const keep = (all: readonly Turn[]) => onChange(id, (before) => ({ ...before, turns: all, changedAt: Date.now() }));
    keep(turns);
    try {
      const { answer: got, error, isPartial } = await run.start(requestOf(model, settings, turns));
      if (error !== undefined) setFailure({ id, error });
      if (got.text !== "" || got.reasoning !== "" || got.toolCalls.length > 0)
        keep([...turns, turnOf(got, model, isPartial)]);
    } catch (error) {
      // The settings cannot be sent.
      setFailure({ id, error });
    }
  };

  const { turns } = conversation;
  return {
    live: run.live,
    error: failure?.id === conversation.id ? failure.error : undefined,
    stop: run.stop,
    send: (content) => void answer([...turns, { message: { role: "user", content } }]),
    sendResults: (results) => {
      const last = turns.at(-1)?.message;
      const calls = last?.role === "assistant" ? (last.tool_calls ?? []) : [];
      const replies = calls.map(
        ({ id }, at): Turn => ({
          message: { role: "tool", tool_call_id: id, content: results[at] ?? "" },
        }),
      );
      void answer([...turns, ...replies]);
    },
    regenerate: () =>
      void answer(turns.slice(0, turns.findLastIndex(({ message }) => message.role !== "assistant") + 1)),
    edit: (at, content) => void answer([...turns.slice(0, at), { message: { role: "user", content } }]),
  };
}

function turnOf({ text, reasoning, toolCalls, ...figures }: Answer, model: string, isPartial: boolean): Turn {
  return {
    message: { role: "assistant", content: text, ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}) },
    model,
    figures,
    ...(reasoning === "" ? {} : { reasoning }),
    ...(isPartial ? { isPartial: true } : {}),
  };
}
