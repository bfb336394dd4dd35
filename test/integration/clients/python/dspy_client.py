import dspy

from driver import base, chat, key, question, serve

dspy.configure(lm=dspy.LM(f"openai/{chat}", api_base=base + "/v1", api_key=key, cache=False, num_retries=0))

serve({"chat": lambda: dspy.Predict("question -> answer")(question=question).answer})
