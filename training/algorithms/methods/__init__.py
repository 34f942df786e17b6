"""The parts of a step that other methods than LUFFY need: pure functions, chosen by options of the section ``mixed``.

- ``on_policy``: the loss of on-policy tokens: PPO, CISPO, GSPO, GMPO, SAPO, DPPO, REINFORCE
- ``sft``: the supervised loss, the weight of a token in it, and its own over the steps: SFT, DFT, CHORD
- ``gate``: RL or supervised training for each prompt, by its successes: HPT
- ``srft``: weights by entropy and advantages by outcome: SRFT
- ``relift``: the prompts for supervised steps between those by RL: ReLIFT
- ``exgrpo``: the store of the policy's right samples and what is drawn from it: ExGRPO
- ``distillation``: the scores of a teacher for the policy's own tokens: OPD, OPSD
"""
