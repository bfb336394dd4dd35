// Conversations of this browser, and which one is open.
import { useCallback, useEffect, useRef, useState } from "react";
import { useVisitor } from "../../app/visitor.ts";
import {
  type Conversation,
  defaultSettings,
  readConversations,
  writeConversations,
} from "../../domain/conversations.ts";

/** Undefined where the browser denies it. */
function browserStore(): Storage | undefined {
  try {
    return localStorage;
  } catch {
    return undefined;
  }
}

export interface Conversations {
  /** Newest first. The open one may be new and without messages. */
  readonly all: readonly Conversation[];
  readonly open: Conversation;
  readonly isStored: boolean;
  readonly choose: (id: string) => void;
  readonly create: () => void;
  readonly change: (id: string, change: (before: Conversation) => Conversation) => void;
  readonly remove: (id: string) => void;
  readonly removeAll: () => void;
}

const created = (like?: Conversation): Conversation => ({
  id: crypto.randomUUID(),
  changedAt: Date.now(),
  model: like?.model ?? "",
  settings: like?.settings ?? defaultSettings,
  turns: [],
});

interface State {
  readonly all: readonly Conversation[];
  readonly openId: string;
}

const opened = (all: readonly Conversation[], like?: Conversation): State => {
  const next = created(like);
  return { all: [next, ...all.filter(({ turns }) => turns.length > 0)], openId: next.id };
};

export function useConversations(): Conversations {
  const { me } = useVisitor();
  const [{ all, openId }, setState] = useState<State>(() => {
    const store = browserStore();
    const [newest, ...rest] = store ? readConversations(store, me.uid) : [];
    return newest ? { all: [newest, ...rest], openId: newest.id } : opened([]);
  });
  const [isStored, setStored] = useState(true);
  useEffect(() => {
    const store = browserStore();
    setStored(store !== undefined && writeConversations(store, me.uid, all));
  }, [all, me.uid]);
  const isShown = useRef(true);
  useEffect(() => {
    isShown.current = true;
    return () => {
      isShown.current = false;
    };
  }, []);
  const change = useCallback(
    (id: string, change: (before: Conversation) => Conversation) => {
      const changed = (before: readonly Conversation[]) => before.map((one) => (one.id === id ? change(one) : one));
      if (isShown.current) return setState((before) => ({ ...before, all: changed(before.all) }));
      // The page was left during an answer; what arrived of it is kept.
      const store = browserStore();
      if (store) writeConversations(store, me.uid, changed(readConversations(store, me.uid)));
    },
    [me.uid],
  );
  const open = all.find(({ id }) => id === openId) ?? (all[0] as Conversation);
  return {
    all,
    open,
    isStored,
    choose: (id) => setState((before) => ({ ...before, openId: id })),
    create: () => setState((before) => opened(before.all, open)),
    change,
    remove: (id) =>
      setState((before) => {
        const rest = before.all.filter((one) => one.id !== id);
        if (rest.length === 0) return opened([], open);
        return { all: rest, openId: before.openId === id ? (rest[0] as Conversation).id : before.openId };
      }),
    removeAll: () => setState(() => opened([], open)),
  };
}
