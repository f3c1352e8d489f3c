"""Operations on tensors that know no protocol."""
